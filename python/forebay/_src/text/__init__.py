"""Ops on text: token ids, chats, and forms of text for training."""
