package main

import "testing"

func TestMemory_CountsAllOfProcess(t *testing.T) {
	const status = "Name:\tbench\nVmPeak:\t  90000 kB\nVmRSS:\t   12500 kB\nRssAnon:\t    3100 " +
		"kB\nRssFile:\t    9400 kB\n"
	all, own, err := residentOf([]byte(status))
	if err != nil || all != 12500<<10 || own != 3100<<10 {
		t.Errorf("%d, %d, %v", all, own, err)
	}
	for _, without := range []string{
		"", "Name:\tbench\nVmRSS:\t   12500 kB\n",
		"Name:\tbench\nRssAnon:\t    3100 kB\n",
	} {
		if _, _, err := residentOf([]byte(without)); err == nil {
			t.Errorf("%q has both", without)
		}
	}
}
