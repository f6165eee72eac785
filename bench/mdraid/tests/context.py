"""What a test imports before the harness: the folder in which that lies, whatever folder the tests are run from."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
