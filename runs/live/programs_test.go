package live_test

import "selvedge/internal/dbtest"

var programs = map[string]dbtest.Program{}
