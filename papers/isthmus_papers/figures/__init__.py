"""Named figures, one module per subject; `isthmus figure` draws them from any records."""

import isthmus.figures  # noqa: F401 - gives matplotlib a home
