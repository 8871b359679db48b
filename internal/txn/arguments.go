package txn

import (
	"database/sql"
	"database/sql/driver"
	"reflect"
	"time"
)

// isTime looks where a driver would look for a value. Drivers write a time as a text of their own,
// which does not sort.
func isTime(arg any) bool {
	for {
		switch a := arg.(type) {
		case time.Time, *time.Time:
			return true
		case sql.NamedArg:
			arg = a.Value
			continue
		case driver.Valuer:
			v := reflect.ValueOf(a)
			if v.Kind() == reflect.Pointer && v.IsNil() {
				return false
			}
			value, err := a.Value()
			if err != nil {
				return false // the driver reports it
			}
			_, ok := value.(time.Time)
			return ok
		}
		v := reflect.ValueOf(arg)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return false
		}
		arg = v.Elem().Interface()
	}
}
