// Package api is the way in for programs that are not Go: JSON over HTTP, to append messages,
// to lease, extend and settle them, to look at a store and to act on it. It is an
// [http.Handler] over any store:
//
//	door, err := api.New(s, api.Config{Access: api.Access{Tokens: []api.Token{
//		{Name: "shop", Secret: secret, Role: api.Producer, Topics: []string{"mail", "orders.*"}},
//	}}})
//	server := door.Server() // with bounds against slow clients
//	err = server.Serve(listener)
//
// It keeps nothing between requests that another process needs: whoever serves the same store may
// extend and settle what this one leased, and repeats of a request with one Idempotency-Key are
// recognized by the store. Failures are decided by the policy, as in a dispatcher.
//
// Every answer that is not a success is application/problem+json (RFC 9457). GET /v1/openapi.json
// describes all routes.
package api
