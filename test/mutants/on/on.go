// Package on is what mutated sources ask which mutant they are. Only the copies that
// test/mutants makes import it.
package on

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

// The environment variables that configure a test binary.
const (
	MutantVariable  = "SELVEDGE_MUTANT"  // the number of the mutant that is on; none is 0
	ReachedVariable = "SELVEDGE_REACHED" // a file to which the numbers of all mutants are added that are come by
)

var (
	mutant, _ = strconv.Atoi(os.Getenv(MutantVariable))
	survey    = os.Getenv(ReachedVariable)
	reached   sync.Map
)

// At reports whether this mutant is on.
func At(number int) bool {
	if survey != "" {
		note(number)
	}
	return number == mutant
}

func note(number int) {
	if _, known := reached.LoadOrStore(number, true); known {
		return
	}
	f, err := os.OpenFile(survey, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintln(f, number); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}

// Text returns a statement's text, or a mutant of it: others[i] is that of mutant first+i.
func Text(text string, first int, others ...string) string {
	if i := mutant - first; i >= 0 && i < len(others) {
		return others[i]
	}
	return text
}

// TextHere is Text in a function, whose caller comes by the mutants.
func TextHere(text string, first int, others ...string) string {
	if survey != "" {
		for i := range others {
			note(first + i)
		}
	}
	return Text(text, first, others...)
}
