package main

// scripts are all there are; the names are those of -script.
var scripts = []script{
	runsScript(), normalScript(), crowdScript(), neighbourScript(), liveScript(), agentsScript(), checkpointsScript(), workersScript(),
	openScript(), recoverScript(), walScript(), migrateScript(), retentionScript(), backupScript(), importScript(),
}
