"""Tools that build what the package ships."""
