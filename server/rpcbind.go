package server

import "context"

func (s *Server) register(ctx context.Context) {}
