package main

// scripts are all there are; the names are those of -script.
var scripts = []script{
	runsScript(),
}
