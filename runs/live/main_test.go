package live_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, programs) }

// jsonOf is what a record's MarshalJSON gives: json.Marshal compacts and escapes it.
func jsonOf(record interface{ MarshalJSON() ([]byte, error) }) []byte {
	text, err := record.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return text
}
