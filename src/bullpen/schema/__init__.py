"""The nouns, events and request bodies, as frozen types whose field names are the wire's names.

The same object comes out of the store, goes over the stream and lands in a client. The odd shapes of
the wire (`{type, data}` parts, capitalised keys) are known here and nowhere else.
"""
