// Package http is a handler that posts deliveries to a web service and reads
// the verdict from the status of the reply: 2xx is an ack, 429 and 503 with
// Retry-After give the delivery back, and everything else is a failure, with its
// kind and facts, that the policy decides about. A reply of the type
// [ContentVerdict] states the verdict itself, and may emit.
package http
