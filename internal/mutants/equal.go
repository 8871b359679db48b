package main

// equal says why a mutant changes nothing that anybody could see. It doesn't count.
type equal struct{ file, was, became, why string }

var equals = []equal{}

func (e equal) is(m *mutant) bool {
	return e.file == m.file && e.was == m.was && e.became == m.became
}

// equal is why a mutant changes nothing; "" where it isn't known to.
func (m *mutant) equal() string {
	for _, e := range equals {
		if e.is(m) {
			return e.why
		}
	}
	return ""
}
