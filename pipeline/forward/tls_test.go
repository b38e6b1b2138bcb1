package forward

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
)

// An API whose certificate nobody here knows is told by the cause, without the token.
func TestTLSFailuresNameWhatToChange(t *testing.T) {
	api := httptest.NewUnstartedServer(nil)
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
	api.StartTLS()
	t.Cleanup(api.Close)
	_, err := newClient(api.URL, "777:VERYSECRET").me(t.Context())
	if err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE") || strings.Contains(err.Error(), "VERYSECRET") {
		t.Error(err)
	}
}
