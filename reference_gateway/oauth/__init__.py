"""The OAuth broker: how the gateway gets, keeps and renews a user's consent at a provider, and loses it without losing anything else.

Order of use: a provider's challenge (`challenge`) leads to its metadata (`discovery`, `documents`), to a client identity (`registration`), to
a consent that one operator asked for (`pending`, `broker`), to tokens (`tokens`, `vault`) and to their renewal (`refresh`). `authorized`
puts a token on each request. Everything goes out through the guarded client, and nothing a provider says is repeated to anybody.
"""
