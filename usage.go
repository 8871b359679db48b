package selvedge

import "selvedge/db"

type Usage = db.Usage
