package db_test

import (
	"strings"
	"testing"

	"selvedge/internal/engine"
)

func TestAnAddressIsShownWithoutItsPasswords(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://ann:secret@h:5432/d?sslmode=require":            "postgres://ann@h:5432/d?sslmode=require",
		"postgresql://ann:secret@a:1,b:2/d":                         "postgresql://ann@a:1,b:2/d",
		"Postgres://:secret@h/d":                                    "postgres://@h/d",
		"postgres://ann@h/d?password=secret&search_path=x":          "postgres://ann@h/d?search_path=x",
		"postgres://ann@h/d?sslkey=k&sslpassword=secret":            "postgres://ann@h/d?sslkey=k",
		"postgres://ann@h/d?PassWord=secret&pass%77ord=secret":      "postgres://ann@h/d",
		"postgres://ann:@h/d":                                       "postgres://ann@h/d",
		"postgres://ann:se/cret@h/d":                                "postgres://…",
		"postgres://ann:12/secret@h/d":                              "postgres://…",
		"postgres://ann:12#secret@h/d":                              "postgres://…",
		"postgres://ann:12?secret@h/d":                              "postgres://…",
		"postgres://ann:sec%ret@h/d":                                "postgres://…",
		"postgres://ann@h/d?pass%word=secret&x=y":                   "postgres://…",
		"postgres://ann:se cret@h/d":                                "postgres://…",
		"postgres://ann:sec@ret@h/d":                                "postgres://…",
		"postgres://ann:secret@/d?host=%2Frun%2Fpg&password=secret": "postgres://ann@/d?host=%2Frun%2Fpg",
	} {
		got, secret := engine.WithoutSecrets(address)
		if got != want || !secret {
			t.Errorf("%s is shown as %s (%v), want %s", address, got, secret, want)
		}
		if again, secret := engine.WithoutSecrets(got); !strings.Contains(got, "…") && (again != got || secret) {
			t.Errorf("%s is shown as %s (%v)", got, again, secret)
		}
	}
	for _, path := range []string{
		"selvedge.db", "/srv/a:b@c.db", "postgres://ann@h:5432/d?search_path=x&host=%2Frun",
		"postgres:///d?host=@abstract", "./x://a:b@c",
	} {
		if got, secret := engine.WithoutSecrets(path); got != path || secret {
			t.Errorf("%s is shown as %s (%v)", path, got, secret)
		}
	}
}
