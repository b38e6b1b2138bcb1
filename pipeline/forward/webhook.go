package forward

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

const maxUpdate = 1 << 20

// webhookThere tells a refusal of getUpdates that says that updates go to a webhook.
func webhookThere(description string) bool {
	return strings.Contains(strings.ToLower(description), "webhook")
}

// announceWebhook tells Telegram where to send updates, if an address for that is configured, until it has agreed.
func (f *forwarder) announceWebhook(ctx context.Context) error {
	s := f.env.Section
	if s.Text("webhook_url") == "" {
		<-ctx.Done()
		return nil
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		err := f.api.call(ctx, callTimeout, "setWebhook", map[string]any{
			"url": s.Text("webhook_url"), "secret_token": s.Text("secret_token"), "allowed_updates": wanted(),
		}, nil)
		if err == nil {
			f.say("")
			break
		}
		f.say("Telegram does not take the webhook: " + err.Error())
		f.env.Logger.Warn("Telegram does not take the webhook", "error", err, "again_in", wait)
		_ = store.Sleep(ctx, wait)
	}
	<-ctx.Done()
	return nil
}

// listen takes updates until ctx ends. Every process listens, if it can: on one machine only one can.
func (f *forwarder) listen(ctx context.Context) {
	address, told := f.env.Section.Text("listen"), false
	for ctx.Err() == nil {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			if !told {
				f.env.Logger.Warn("the webhook cannot listen; another process may", "address", address, "error", err)
			}
			told = true
			_ = store.Sleep(ctx, 2*time.Second)
			continue
		}
		mux := http.NewServeMux()
		mux.HandleFunc("POST "+f.env.Section.Text("path"), f.hook)
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
		stop := context.AfterFunc(ctx, func() {
			last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = server.Shutdown(last)
		})
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			f.env.Logger.Error("the webhook ended", "error", err)
		}
		stop()
	}
}

// hook takes one update. Telegram repeats it until the answer is 200, which means that it is stored.
func (f *forwarder) hook(w http.ResponseWriter, r *http.Request) {
	secret := f.env.Section.Text("secret_token")
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Telegram-Bot-Api-Secret-Token")), []byte(secret)) != 1 {
		f.figs.webhookRefused.Add(1, f.env.Name)
		http.Error(w, "wrong secret token", http.StatusForbidden)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	if err != nil {
		f.figs.webhookRefused.Add(1, f.env.Name)
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	m, _, err := f.incoming(json.RawMessage(raw))
	if err != nil {
		f.figs.webhookRefused.Add(1, f.env.Name)
		http.Error(w, "no update", http.StatusBadRequest)
		return
	}
	if m.Topic != "" {
		if err := f.append(r.Context(), m); err != nil {
			f.env.Logger.Error("an update could not be stored", "error", err)
			http.Error(w, "not stored", http.StatusServiceUnavailable)
			return
		}
	}
	f.figs.updates.Add(1, f.env.Name)
}
