package open

import (
	"strings"
	"testing"
)

func TestPlainIsSaidOfOtherMachines(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:p@db:5432/d":                   "sslmode=prefer sends",
		"postgres://u:p@db/d?sslmode=disable":        "sslmode=disable sends passwords and messages to db",
		"postgres:///d?host=10.1.2.3&sslmode=allow":  "to 10.1.2.3",
		"postgres://u:p@db/d?sslmode=require":        "",
		"postgres://u:p@db/d?sslmode=verify-full":    "",
		"postgres://u:p@127.0.0.1/d":                 "",
		"postgres://u:p@localhost/d?sslmode=disable": "",
		"postgres:///d?host=/var/run/postgresql":     "",
		"postgres://u:p@[::1]/d?pawl_schema=x":       "",
		"sqlite:pawl.db":                             "",
	} {
		if got := Plain(url); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
