package serve

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestDoorWithoutTokensIsLocal: where another machine could come in, the door does not open, nor does a reload take the
// tokens away.
func TestDoorWithoutTokensIsLocal(t *testing.T) {
	token := []config.APIToken{{Name: "ops", Token: "secret-operator", Role: "operator"}}
	open := func(c config.API) (*Door, error) {
		d, err := OpenDoor(memory.New(memory.Config{}), DoorConfig{API: c, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(d.Close)
		return d, err
	}
	if d, err := open(config.API{Listen: "0.0.0.0:0"}); d != nil || !errors.Is(err, ErrListen) ||
		!strings.Contains(err.Error(), "has no tokens") {
		t.Errorf("it opens to all: %v", err)
	}
	if _, err := open(config.API{Listen: "127.0.0.1:0"}); err != nil {
		t.Error(err)
	}
	d, err := open(config.API{Listen: "0.0.0.0:0", Tokens: token})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(&config.API{Listen: "0.0.0.0:0"}); err == nil {
		t.Error("a reload takes the tokens away")
	}
	r, err := http.Get("http://" + strings.Replace(d.Address(), "[::]", "127.0.0.1", 1) + "/v1/topics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", r.Status)
	}
}
