package cli

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/redact"
)

// No log shows the password of a web service that handles a topic, neither as its URL
// states it nor as a request carries it.
func TestPasswordsOfHandlersAreLearned(t *testing.T) {
	s := &session{redactor: redact.New()}
	s.learn(&config.Config{Topics: []config.Topic{{URL: "http://user:secret-tok-12345@host/mail"}}})
	for _, said := range []string{"400: got secret-tok-12345",
		"400: Authorization: Basic dXNlcjpzZWNyZXQtdG9rLTEyMzQ1"} {
		if shown := s.redactor.Redact(said); strings.Contains(shown, "secret-tok") ||
			strings.Contains(shown, "dXNlcjpz") {
			t.Errorf("shown: %s", shown)
		}
	}
}
