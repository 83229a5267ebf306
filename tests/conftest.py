import pytest
import torch
from hypothesis import settings

settings.register_profile("doxa", derandomize=True, deadline=None)  # the same cases every time
settings.load_profile("doxa")


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
