"""Cases that chance would not find: (name, method, path, body, content type). A body may be text, or a change of a stored object."""
CASES = []
