"""The API against its own description: requests that schemathesis makes from the OpenAPI document."""
