"""What schemathesis has to know beyond the OpenAPI document: how lines of JSON are sent."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """The text as it is; the document says that it is a string."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
