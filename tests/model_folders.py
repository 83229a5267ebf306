"""Model folders in tests: their files by part, and manifests with other content."""

import json

from doxa.storage import folders


def part(folder, name):
    """The file of a part of a model."""
    return folders.entries(folder, folders.read_manifest(folder))[name].path


def manifest(folder):
    return json.loads((folder / folders.MANIFEST).read_text())


def forge(folder, content):
    """Write a manifest with its checksum, whatever its content."""
    (folder / folders.MANIFEST).write_text(folders.signed(content))
