"""Model folders with flipped bits, all of which must be refused, and with forged manifests, which must not crash."""

import json
import random
import shutil

from tests.faults import tools

VALUES = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**400, -(10**30), 0.5, -0.0, 1e308, 1e-320),
    *("", "a", "\u0000", "é" * 99, "translation", "complex", "separate", "learned"),
    *([], {}, [[]], [None], {"a": None}, [1e308] * 3, [[1, 2], [3]]),
]
"""What a forged manifest may say in any place."""


def flips(base, count, seed):
    """Flip one bit of a random file, so many times; returns what was accepted."""
    from doxa.errors import DoxaError
    from doxa.model import Model

    chance, accepted = random.Random(seed), []
    files = sorted(path for path in base.iterdir() if path.is_file())
    for _ in range(count):
        path = chance.choice(files)
        content = bytearray(path.read_bytes())
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        content[place] ^= 1 << bit
        original = path.read_bytes()
        path.write_bytes(content)
        try:
            _read(base, path)
            accepted.append(f"{path.name}, byte {place}, bit {bit}: accepted")
        except DoxaError:
            pass
        except Exception as fault:
            accepted.append(f"{path.name}, byte {place}, bit {bit}: {type(fault).__name__}: {fault}")
        finally:
            path.write_bytes(original)
    Model.load(base)
    return accepted


def _read(base, path):
    from doxa.model import Model
    from doxa.training.checkpoint import Checkpoint

    if path.name == "checkpoint.safetensors":
        Checkpoint.load(path)
    else:
        Model.load(base)


def forged(base, count, seed):
    """Change one to three places of the manifest, with its checksum made right, and use the model."""
    from doxa.errors import DoxaError
    from doxa.storage.folders import MANIFEST, signed

    chance, faults = random.Random(seed), []
    original = (base / MANIFEST).read_text()
    for number in range(count):
        manifest = json.loads(original)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            _change(manifest, chance)
        try:
            (base / MANIFEST).write_text(signed(manifest))
            _use(base)
        except DoxaError:
            pass
        except Exception as fault:
            faults.append(f"forged manifest {number}, seed {seed}: {type(fault).__name__}: {fault}")
        finally:
            (base / MANIFEST).write_text(original)
    return faults


def _places(node):
    """Every place of a JSON value, as the container and the key."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def _change(manifest, chance):
    """Remove, replace, move or double a random place, the less deep ones more often."""
    container, key = chance.choice(list(_places(manifest)) or [(manifest, "format")])
    match chance.randrange(5):
        case 0 if isinstance(container, dict):
            container.pop(key, None)
        case 1 if isinstance(container, list):
            container.extend(container[:3] * chance.randrange(3))
        case 2 if isinstance(container, dict):
            container[f"{key}x"] = container.pop(key, None)
        case _:
            container[key] = chance.choice(VALUES)


def _use(base):
    """Load the model and ask it everything that depends on the manifest."""
    from doxa.model import Model

    model = Model.load(base)
    asked = [("1,1", "up", "1,2"), ("1,1", "right", "2,1"), ("zz", "up", "1,1")]
    json.dumps(model.info().as_dict())
    model.tails("1,1", "up", top=3)
    model.relations("1,1", "1,2", top=2)
    model.judge(asked)
    model.confidence(asked)
    model.complete(top=3)


def run(flipped, forgeries, seed):
    """Both over a small model with an unfinished run; returns the faults and figures."""
    faults = []
    with tools.scratch() as folder:

        def work():
            from doxa import formats
            from doxa.curation.calibrate import calibrate  # noqa: F401
            from doxa.data.beliefs import Beliefs
            from doxa.model import fit
            from doxa.training.checkpoint import Checkpoint
            from tests.worlds import board

            values = {"dimension": 4, "epochs": 2, "batch_size": 16, "num_candidates": 8, "threads": 1}
            beliefs = Beliefs.from_frame(board(5))
            fit(beliefs, beliefs, score="translation", decision_rule="learned", **values).save(folder / "m")
            formats.write(board(3), folder / "b.tsv")
            shutil.copytree(folder / "m", folder / "with_run")
            weights = fit(beliefs, score="translation", **values).pbe.state_dict()
            Checkpoint(dict(weights), {"step": 3}).save(folder / "with_run" / "checkpoint.safetensors")
            log = flips(folder / "with_run", flipped, seed) + forged(folder / "m", forgeries, seed)
            (folder / "faults.json").write_text(json.dumps(log))

        child = tools.start(work, folder / "log")
        code = tools.ended(child, 3600)
        assert code == 0, (folder / "log").read_text()
        faults = json.loads((folder / "faults.json").read_text())
    print(f"folders: seed {seed}, {flipped} bit flips, {forgeries} forged manifests, {len(faults)} faults", flush=True)
    return faults, {"bit_flips": flipped, "forged_manifests": forgeries}
