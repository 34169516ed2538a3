"""What tests share and is no fixture.

Whatever calls pgq does it by a Session; what else there is stands in the module named after it.
"""
