"""libdcmi.so, the vendor's management library, v1 and v2.

`table` has the calls as rows, `structures` what they fill, `rows` and `decoders` how an answer becomes readings,
`codes` what a return code means; `library` finds and loads, `calling` binds and calls, `discovery` identifies the
chips, and `driver` puts them together.
"""
