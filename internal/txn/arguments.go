package txn

import (
	"database/sql"
	"database/sql/driver"
	"time"
)

// isTime converts an argument as database/sql does. Drivers write a time as a text of their own,
// which does not sort.
func isTime(arg any) bool {
	switch a := arg.(type) {
	case *time.Time:
		return true
	case sql.NamedArg:
		return isTime(a.Value)
	}
	value, err := driver.DefaultParameterConverter.ConvertValue(arg) // the driver reports an error
	_, is := value.(time.Time)
	return err == nil && is
}
