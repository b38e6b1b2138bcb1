package kafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenIsReadAnew for every connection: whoever renews it does so in its file.
func TestTokenIsReadAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	s := &core{cfg: Config{TokenFile: path}}
	if _, err := s.token(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a file: %v", err)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if auth, err := s.token(t.Context()); err != nil || auth.Token != token {
			t.Errorf("%+v, %v; want %s", auth, err, token)
		}
	}
}
