import sys

from isthmus.start import main

sys.exit(main())
