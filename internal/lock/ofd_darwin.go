package lock

// Open file description locks in XNU's bsd/sys/fcntl.h, which x/sys does not name.
const (
	ofdSet = 90
	ofdGet = 92
)
