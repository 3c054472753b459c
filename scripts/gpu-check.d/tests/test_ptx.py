"""Checks that NVIDIA's own assembler accepts the probes' kernels, of which the simulated driver reads only the names.
Skipped if there is no ptxas; Triton brings one, which scripts/test-pytorch.sh installs."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3))
sys.path += [os.path.join(ROOT, "scripts", folder) for folder in ("gpu-probe.d", "gpu-session.d")]

import cuda
import locks

ASSEMBLERS = glob.glob(os.path.join(ROOT, "downloads", "*", "lib", "python3*", "site-packages", "**", "ptxas"), recursive=True)


@unittest.skipUnless(ASSEMBLERS, "there is no ptxas")
class Ptx(unittest.TestCase):
    def test_the_assembler_accepts_every_kernel(self):
        modules = [locks.big_module(1, capability)[0] for capability in (70, 90)]
        for text in (*cuda.PTX, *cuda.PTX_FLAG, cuda.PTX_TRIGGER, *modules):
            for assembler in ASSEMBLERS:
                with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
                    file.write(text.rstrip(b"\0"))
                    file.flush()
                    command = [assembler, "-arch", "sm_90", file.name, "-o", os.devnull]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr + text.decode())


if __name__ == "__main__":
    unittest.main()
