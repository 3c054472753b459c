"""slangpy: its library finds the driver into variables of its own that have the driver's names."""
import json

import slangpy

adapters = slangpy.Device.enumerate_adapters(type=slangpy.DeviceType.cuda)
assert len(adapters) >= 1, adapters
print(json.dumps({"at_least": {"launches": 0}, "calls": {"cuInit": 1}}))
