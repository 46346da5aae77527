package auth

// hidden keeps a secret out of every print. Packages that print by reflection,
// fmt first of all, show the fields of a struct without asking its methods if
// the field that holds it is not exported. Of a function they have an address
// to show.
type hidden[T any] struct{ reveal func() T }

func hide[T any](v T) hidden[T] { return hidden[T]{func() T { return v }} }

// show returns the secret; the zero value if nothing was hidden.
func (h hidden[T]) show() (v T) {
	if h.reveal != nil {
		v = h.reveal()
	}
	return v
}
