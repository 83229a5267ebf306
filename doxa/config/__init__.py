"""Settings: every option of a run. `settings` declares them, `declared` is how a setting is declared and checked."""

from doxa.config.declared import check, described, parse, setting
from doxa.config.settings import (
    FIELDS,
    GROUPS,
    RENAMED,
    RENAMED_VALUES,
    Settings,
    describe,
    migrate,
    read_toml,
    takes_settings,
)

__all__ = [
    "FIELDS",
    "GROUPS",
    "RENAMED",
    "RENAMED_VALUES",
    "Settings",
    "check",
    "describe",
    "described",
    "migrate",
    "parse",
    "read_toml",
    "setting",
    "takes_settings",
]
