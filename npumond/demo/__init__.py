"""Inference servers that are made up, for ``npumond run --simulate``: real HTTP, real metrics pages, no model.

`traffic` says what is asked of a server and how it fares, `ledger` adds that up, `page` writes it as vLLM or MindIE
would, and `servers` puts it on loopback, where the daemon scrapes it like any other target.
"""
