"""What every test runs under."""

from hypothesis import settings

settings.register_profile("bounded", deadline=None, print_blob=True)
settings.load_profile("bounded")
