package codec

import "testing"

func TestTypes_EachNameIsKnown(t *testing.T) {
	types := parsed()
	for name, st := range types {
		for i, f := range st.fields {
			if f.of == nil {
				t.Errorf("the type of %s.%s is unknown", name, st.names[i])
			}
		}
		for i, v := range st.variants {
			if v == nil {
				t.Errorf("the variant %s of %s is unknown", st.names[i], name)
			}
		}
	}
	if types["PausedWorkflow"] == nil {
		t.Error("the type of the document is missing")
	}
}
