//go:build postgres

package adk_test

import (
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"

	"selvedge/adapters/adk"
	"selvedge/test/dbtest"
)

func TestPostgres_PassesADKSuite(t *testing.T) {
	sessiontestsuite.RunServiceTests(t, sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true},
		func(t *testing.T) session.Service { return adk.New(open(t, dbtest.Postgres(t), nil)) })
}
