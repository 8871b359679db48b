package live

// What the tests of package live_test use of the codec and the old layout.
type FileWriter = fileWriter

var (
	ParseFile = parseFile
	SafeName  = safeName
)

// EventMembers returns the members of each known type of events, in order.
func EventMembers() map[string][]string {
	members := map[string][]string{}
	for kind, sh := range eventTypes() {
		members[kind] = []string{}
		for _, f := range sh.fields {
			members[kind] = append(members[kind], f.name)
		}
	}
	return members
}
