// Package adk keeps the sessions of programs written with ADK-Go: it implements session.Service over
// the stores runs and state.
//
//	d, err := db.Open(ctx, "agents.db", db.Options{})
//	r, err := runner.New(runner.Config{AppName: "app", Agent: a, SessionService: adk.New(d)})
//
// An app is the scope "adk:" and its name, a user is an agent, and a session is a run, whose records
// are its events. State is in the store state of that scope: that of the app under the owner "app",
// that of a user under "user:" and the user, and that of a session as one value under "session:" and
// the user, with the session as its key.
//
// Each call is one transaction. AppendEvent returns once the event and its state are durable; an
// event whose ID was stored before is not stored again.
//
// # Caveats
//
// State holds JSON values: after a Get, numbers are float64. A session is a run that does not end by
// itself: migrate gc ends and removes sessions that nobody has used for longer than the age limit of
// runs, which is 30 days unless the retention of the scope says otherwise. Its state stays until a limit
// of the store state removes it; a session that lost its state to such a limit goes on without it.
package adk
