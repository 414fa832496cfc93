"""SQLAlchemy: rows written and read through sessions, over SQLite in memory."""

import pace
import sqlalchemy
import sqlalchemy.orm


class Base(sqlalchemy.orm.DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "rows"
    id: sqlalchemy.orm.Mapped[int] = sqlalchemy.orm.mapped_column(primary_key=True)
    name: sqlalchemy.orm.Mapped[str]


engine = sqlalchemy.create_engine("sqlite://")
Base.metadata.create_all(engine)
for step in pace.steps():
    with sqlalchemy.orm.Session(engine) as session:
        session.add_all(Row(name=f"row {i}") for i in range(300))
        session.commit()
        assert len(session.scalars(sqlalchemy.select(Row)).all()) == 300
        session.execute(sqlalchemy.delete(Row))
        session.commit()
