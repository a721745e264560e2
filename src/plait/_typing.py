"""Array types of signatures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]  # numbers
Floats = NDArray[np.floating]  # numbers, doubles or floats
Rows = NDArray[np.int64]  # row numbers
Flags = NDArray[np.bool_]  # masks
AnyArray = NDArray[Any]  # labels, or numbers of any kind
