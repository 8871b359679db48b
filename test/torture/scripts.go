package main

// scripts are all there are; the names are those of -script.
var scripts = allScripts()

func allScripts() []script {
	list := []script{
		runsScript(), normalScript(), crowdScript(), neighbourScript(), heldScript(), liveScript(),
		liveHeldScript(),
		replaceScript(), agentsScript(), checkpointsScript(), workersScript(), runtimesScript(), reserveScript(),
		stepsScript(), stateScript(),
		agentsMoreScript(), sundryScript(), deletingScript(), fullScript(), restoreScript(), openScript(),
		recoverScript(),
		walScript(), foreignScript(), restoreForeignScript(), migrateScript(), retentionScript(), keepingScript(),
		backupScript(), compactScript(), salvageScript(), redactScript(), downScript(),
	}
	for _, t := range trees {
		list = append(list, importScript(t))
	}
	return list
}
