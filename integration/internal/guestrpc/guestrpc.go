// Package guestrpc is the command channel between the harness and the agent that is process 1 of a guest: one TCP
// connection per command. The harness sends a Request frame, then input frames; the agent answers with output
// frames and one Exit frame. A connection that breaks kills the command's process group.
//
// A frame is a kind byte, a big-endian length and that many bytes.
package guestrpc

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Port is where the agent listens, and where it reports that it is up on the harness's end.
const Port = 1099

// MaxFrame bounds the length of a frame in bytes.
const MaxFrame = 1 << 20

// Kind says what a frame carries.
type Kind byte

// Kinds of frames.
const (
	KindRequest Kind = 'R' // JSON of Request; the harness's first frame
	KindStdin   Kind = 'I' // bytes for standard input
	KindEOF     Kind = 'E' // end of standard input
	KindStdout  Kind = 'O' // bytes from standard output
	KindStderr  Kind = 'D' // bytes from standard error
	KindExit    Kind = 'X' // JSON of Exit; the agent's last frame
	KindHello   Kind = 'H' // JSON of Hello; the agent's report after boot
)

// Request is a command to run.
type Request struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // added to the agent's own
	Dir  string   `json:"dir,omitempty"` // "/" if empty
	UID  uint32   `json:"uid,omitempty"`
	GID  uint32   `json:"gid,omitempty"`
	// Groups are the supplementary groups.
	Groups []uint32 `json:"groups,omitempty"`
}

// Exit is how a command ended.
type Exit struct {
	Code  int    `json:"code"`            // -1 if it did not start or a signal ended it
	Error string `json:"error,omitempty"` // why, in words
}

// Hello is the first word of a guest.
type Hello struct {
	Kernel string `json:"kernel"` // release
	Error  string `json:"error,omitempty"`
}

// Writer writes frames; its methods may be called from several goroutines.
type Writer struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Frame writes one frame. Payloads above MaxFrame are refused.
func (w *Writer) Frame(k Kind, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("guestrpc: frame of %d bytes", len(payload))
	}
	b := make([]byte, 5, 5+len(payload))
	b[0] = byte(k)
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	b = append(b, payload...)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(b)
	return err
}

// JSON writes v as one frame.
func (w *Writer) JSON(k Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Frame(k, b)
}

// Stream returns a writer whose bytes go out as frames of one kind.
func (w *Writer) Stream(k Kind) io.Writer { return stream{w, k} }

type stream struct {
	w *Writer
	k Kind
}

func (s stream) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 {
		part := p[:min(len(p), MaxFrame)]
		if err := s.w.Frame(s.k, part); err != nil {
			return n, err
		}
		n += len(part)
		p = p[len(part):]
	}
	return n, nil
}

// ReadFrame reads one frame.
func ReadFrame(r io.Reader) (Kind, []byte, error) {
	var h [5]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("guestrpc: frame of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	return Kind(h[0]), b, nil
}

// ReadJSON reads one frame that must be of kind k into v.
func ReadJSON(r io.Reader, k Kind, v any) error {
	got, b, err := ReadFrame(r)
	if err != nil {
		return err
	}
	if got != k {
		return fmt.Errorf("guestrpc: frame %q where %q was expected", got, k)
	}
	return json.Unmarshal(b, v)
}
