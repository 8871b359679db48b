package live

// What the tests of package live_test use of the codec and the old layout.
type FileWriter = fileWriter

var (
	ParseFile = parseFile
	SafeName  = safeName
)
