"""The implementation. Nothing here is public: use the names of `forebay`."""
