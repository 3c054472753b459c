"""Names the systems that the wheel is for: its programs need their glibc and processor, and any Python."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Platform(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-@PLATFORM@"
